import{a,b}from"./chunk-RJ5OXMAY.js";import"./chunk-DDSRP2PV.js";import"./chunk-KI46GMO7.js";import"./chunk-BMT3DEQ3.js";import"./chunk-VXGQUUXI.js";export{b as Search,a as default};
