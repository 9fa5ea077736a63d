import{a,b}from"./chunk-DHBKFYAW.js";import"./chunk-CRXB5JQE.js";import"./chunk-5KZF5A5B.js";import"./chunk-UKSDIW66.js";export{b as Search,a as default};
